"""The aiohttp bridge."""
