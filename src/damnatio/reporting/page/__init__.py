"""The page of a report: `index.html`, one file that holds its data, its charts and what draws them."""
