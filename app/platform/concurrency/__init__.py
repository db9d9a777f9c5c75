"""Fair semaphore, offloading to threads, time slices on the event loop."""
