"""What each method is, in words and settings; a method's `source` or `target` names the code behind it."""
