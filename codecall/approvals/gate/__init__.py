"""The gate that the calls of one run pass: rules, questions to persons, decisions and grants."""
