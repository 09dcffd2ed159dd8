//! The authority that travels, and whether one scope lies within another.
