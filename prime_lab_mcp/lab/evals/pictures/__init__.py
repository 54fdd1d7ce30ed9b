"""The picture of an evaluation: what it shows (`survey`, `figure`), and the child process that draws it (`draw`)."""
