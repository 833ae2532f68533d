"""The page at `/`: files of this package, which hold no document; what they show comes through the API."""

from knowledge_http.page.routes import page_routes

__all__ = ["page_routes"]
