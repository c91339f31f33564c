"""A person's approval of calls: the rules, the grants a person has given, the questions, and how they are asked."""
