"""Knowledge kit: everything in one distribution; the code lives in `knowledge_engine` and its siblings."""
