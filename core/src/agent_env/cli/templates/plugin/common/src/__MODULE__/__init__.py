"""__SUMMARY__."""
