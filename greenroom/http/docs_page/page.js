// Draws the API reference. In a file of its own: the page's policy takes no inline scripts.
"use strict";

Redoc.init(
  "/openapi.json",
  { hideDownloadButton: true, sanitize: true, sortRequiredPropsFirst: true },
  document.getElementById("reference"),
);
