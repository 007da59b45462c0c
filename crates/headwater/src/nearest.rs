//! Known names near a mistyped one, for errors.

/// How many names an error lists.
const LISTED: usize = 4;

/// The names of `known` nearest to the one typed, by their distance to it, as a list for people.
pub(crate) fn nearest(mut known: Vec<String>, distance: impl Fn(&str) -> usize) -> String {
    known.sort_by_cached_key(|name| distance(name));
    known.truncate(LISTED);
    known.join(", ")
}
