#!/bin/sh
# corelane: description = "Counts the words of a text."
# corelane: annotations = { read_only = true }
# corelane: input = { argument = "text" }
# corelane: [arguments.text]
# corelane: type = "string"
# corelane: description = "A text."
wc -w
