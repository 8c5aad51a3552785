"""Parts that every operator is made of; no operator's name occurs here."""
