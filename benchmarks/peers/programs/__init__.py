"""The measured programs, each with the fastest reasonable settings that its documentation names."""
