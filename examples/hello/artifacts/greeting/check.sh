# Succeeds when the greeting beside it begins with a friendly word.
read -r first _ < hello.txt
[ "$first" = "hello," ]
