//! The public surface: a real server on a real port, spoken to by generated clients.

mod receipts;
mod world;
