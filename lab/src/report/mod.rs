//! Reports, made from rows alone.

pub(crate) mod show;
mod gather;
mod lines;
mod figures;
mod markdown;
mod page;
mod proofs;
pub(crate) mod reliability;

pub(crate) use gather::{has_rows, read_results};
pub(crate) use markdown::{readme_table, replace_marked, write as markdown};
pub(crate) use page::write as page;
