"""Records to text. Nothing here measures or decides."""
