//! The lab: is it better, by how much, and why.
