"""Settings and plugins: what an application is configured with."""
