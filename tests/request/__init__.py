"""Tests of the questions about requests."""
