"""Those who race: one module for each library, each with `set_threads` and `race`."""
