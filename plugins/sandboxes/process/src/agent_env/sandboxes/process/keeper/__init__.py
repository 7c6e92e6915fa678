"""The helper processes: small, single-threaded, standard library only.

A *keeper* holds processes for one server and ends them all when the server's end of its socket closes, however the
server died. The spawner starts commands; a zygote forks children of a warm interpreter; a code host forks one child
per verifier. These modules run in other Python environments too, so they import nothing but each other.
"""
