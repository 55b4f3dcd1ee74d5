"""PCF messages: structures, codes and the reading of both. Knows no command server."""
