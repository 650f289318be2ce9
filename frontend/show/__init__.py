"""Presentation of answers for people and programs; nothing here asks a rank."""
