"""The forms of a report: each module makes the text of one. No rank is asked."""
