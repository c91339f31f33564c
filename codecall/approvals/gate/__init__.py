"""The gate that the calls of one run pass: what decides about each, whoever is asked, and what comes of it."""
