//! Names and gaps. Whole registers are in `tests/all/register.rs`.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

#[test]
fn only_manifests_directly_in_the_directory_are_versions() {
    let dir = path::manifest_dir(ShardId::new(Uuid::from_u128(1)));
    let name = format!("{}.binpb", path::rev64(3));
    assert_eq!(version_of(&dir, &format!("{dir}/{name}")), Some(ManifestVersion::new(3)));
    for stranger in [
        format!("{dir}/{name}.tmp.0a"),
        format!("{dir}/{name}#1"),
        format!("{dir}/deeper/{name}"),
        format!("{dir}{name}"),
        format!("{dir}/version_hint.json"),
        name,
    ] {
        assert_eq!(version_of(&dir, &stranger), None, "{stranger}");
    }
}

proptest! {
    #[test]
    fn every_hole_is_named_by_its_first_missing_version(
        there in prop::collection::btree_set(1u64..60, 0..40),
    ) {
        let versions: Vec<_> = there.iter().copied().map(ManifestVersion::new).collect();
        let found: Vec<_> = gaps(&versions).map(ManifestVersion::get).collect();
        let last = there.last().copied().unwrap_or(0);
        let wanted: Vec<_> = (1..last).filter(|v| !there.contains(v) && there.contains(&(v - 1))).collect();
        prop_assert_eq!(found, wanted);
    }
}
