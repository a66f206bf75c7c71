"""What every other package stands on: files, folders, errors, words, engines and downloads."""
