//! Reports, made of rows and of nothing else.
