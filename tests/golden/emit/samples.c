    .batch = 4, .seq = 1,
