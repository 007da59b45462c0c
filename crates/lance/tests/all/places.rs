//! Texts of errors tell nothing of the source that made them.

use headwater_lance::without_places;

#[test]
fn places_in_source_are_left_out_wherever_they_stand() {
    for (said, left) in [
        ("no column x, /a/b-1.0/src/c.rs:12:3", "no column x"),
        ("no column x, location: /a/b.rs:12:3", "no column x"),
        ("outer: inner, src/c.rs:1:2, src/d.rs:3:4", "outer: inner"),
        ("outer: (inner, src/c.rs:1:2) and more, src/d.rs:3:4.", "outer: (inner) and more."),
        ("no such file a.rs: 1", "no such file a.rs: 1"),
        ("filter name = 'b, c d.rs:1:2'", "filter name = 'b, c d.rs:1:2'"),
        ("main.rs:1:2", "main.rs:1:2"),
        ("", ""),
    ] {
        assert_eq!(without_places(said), left);
    }
}
