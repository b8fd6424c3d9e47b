"""Services: what runs for as long as the server does, each a child of the supervision tree."""
