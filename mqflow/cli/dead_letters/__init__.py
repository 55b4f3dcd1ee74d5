"""`mqflow dlq`: rules tables, checked and carried out."""
