"""One operator, one file: what it means, a call, a break of every rule, its structs. catalogue_cases.py reads them."""
