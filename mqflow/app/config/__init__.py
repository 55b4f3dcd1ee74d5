"""The configuration of an application: settings and plugins."""
