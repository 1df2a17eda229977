//! The names of fields that the scripts of a page use. Tests of the lists of fields include this
//! file.

use tidekv_observe::parts::Part;

/// The names in the scripts of these files that end like those of fields.
pub fn names_of_fields(own: &[Part]) -> Vec<&'static str> {
    let endings = [
        "_bytes",
        "_bytes_max",
        "_hits",
        "_misses",
        "_p50",
        "_p99",
        "_reads",
        "_objects",
        "_written",
    ];
    let is_name = |word: &&str| {
        word.bytes().all(|byte| byte.is_ascii_lowercase() || b"_059".contains(&byte))
            && endings.iter().any(|ending| word.len() > ending.len() && word.ends_with(ending))
    };
    let scripts = own.iter().filter(|part| part.path.ends_with(".js"));
    scripts.flat_map(|part| part.text.split(['"', '`'])).filter(is_name).collect()
}
