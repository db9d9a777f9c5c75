"""`runtally graphs`: what the files of graphs say."""
