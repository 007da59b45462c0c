//! Names of objects below a table.
//!
//! Owns: the tree under `_mem_wal/`. Every path is relative to the table root, with `/` and without a leading
//! one. Does not own: reading or listing. Called by everybody who touches storage.
//!
//! Parsers are exact inverses of the makers: whatever a maker would not write (staging left-overs
//! `{name}.tmp.{hex}` and `{name}#N`, unknown names, upper case, leading zeros) is `None`, and readers pass
//! over it.

use crate::coord::{Generation, ManifestVersion, ShardId, WalPosition};

/// Directory of all shards, below the table root.
pub const MEM_WAL_DIR: &str = "_mem_wal";
/// Extension of WAL entries, with the dot.
pub const WAL_EXTENSION: &str = ".arrow";
/// Extension of shard manifests, with the dot.
pub const MANIFEST_EXTENSION: &str = ".binpb";
/// Name of the version hint in a shard's manifest directory.
pub const VERSION_HINT_NAME: &str = "version_hint.json";

const DIGITS: usize = 64;
const GENERATION_MARK: &str = "_gen_";
const TOKEN_DIGITS: usize = 8;

/// The 64 binary digits of the bit-reversed `number`: neighbours differ in the first digit, which spreads
/// them over a store that partitions by prefix.
pub fn rev64(number: u64) -> String {
    format!("{:064b}", number.reverse_bits())
}

/// The number whose [`rev64`] is `text`; `None` unless it is exactly 64 binary digits.
pub fn parse_rev64(text: &str) -> Option<u64> {
    let exact = text.len() == DIGITS && text.bytes().all(|digit| matches!(digit, b'0' | b'1'));
    if !exact {
        return None;
    }
    u64::from_str_radix(text, 2).ok().map(u64::reverse_bits)
}

/// `_mem_wal/{shard}`.
pub fn shard_dir(shard: ShardId) -> String {
    format!("{MEM_WAL_DIR}/{shard}")
}

/// `_mem_wal/{shard}/manifest`.
pub fn manifest_dir(shard: ShardId) -> String {
    format!("{MEM_WAL_DIR}/{shard}/manifest")
}

/// `_mem_wal/{shard}/manifest/{rev64(version)}.binpb`.
pub fn manifest_path(shard: ShardId, version: ManifestVersion) -> String {
    format!("{}/{}{MANIFEST_EXTENSION}", manifest_dir(shard), rev64(version.get()))
}

/// `_mem_wal/{shard}/manifest/version_hint.json`.
pub fn version_hint_path(shard: ShardId) -> String {
    format!("{}/{VERSION_HINT_NAME}", manifest_dir(shard))
}

/// `_mem_wal/{shard}/wal`.
pub fn wal_dir(shard: ShardId) -> String {
    format!("{MEM_WAL_DIR}/{shard}/wal")
}

/// `_mem_wal/{shard}/wal/{rev64(position)}.arrow`.
pub fn wal_path(shard: ShardId, position: WalPosition) -> String {
    format!("{}/{}{WAL_EXTENSION}", wal_dir(shard), rev64(position.get()))
}

/// Name of an SSTable directory: `{token, 8 hex digits}_gen_{generation}`. The token is new at each attempt.
pub fn sstable_name(token: u32, generation: Generation) -> String {
    format!("{token:08x}{GENERATION_MARK}{generation}")
}

/// `_mem_wal/{shard}/{name}`, where `name` is an SSTable's path as the shard manifest has it.
pub fn sstable_dir(shard: ShardId, name: &str) -> String {
    format!("{MEM_WAL_DIR}/{shard}/{name}")
}

/// Token and generation of an SSTable directory name.
pub fn parse_sstable_name(name: &str) -> Option<(u32, Generation)> {
    let (token, generation) = name.split_once(GENERATION_MARK)?;
    let hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if token.len() != TOKEN_DIGITS || !token.bytes().all(hex) {
        return None;
    }
    let token = u32::from_str_radix(token, 16).ok()?;
    parse_decimal(generation).map(|generation| (token, Generation::new(generation)))
}

/// Position of a WAL entry by its file name; positions start at 1.
pub fn parse_wal_name(name: &str) -> Option<WalPosition> {
    parse_numbered(name, WAL_EXTENSION).map(WalPosition::new)
}

/// Version of a shard manifest by its file name; versions start at 1.
pub fn parse_manifest_name(name: &str) -> Option<ManifestVersion> {
    parse_numbered(name, MANIFEST_EXTENSION).map(ManifestVersion::new)
}

/// Shard whose directory below `_mem_wal/` is called `name`.
pub fn parse_shard_name(name: &str) -> Option<ShardId> {
    let shard: ShardId = name.parse().ok()?;
    (shard.to_string() == name).then_some(shard)
}

fn parse_numbered(name: &str, extension: &str) -> Option<u64> {
    let number = parse_rev64(name.strip_suffix(extension)?)?;
    (number != 0).then_some(number)
}

/// Decimal as [`u64`]'s `Display` writes it: no sign, no leading zeros.
pub(crate) fn parse_decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const SHARD: ShardId = ShardId::new(Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0));

    #[test]
    fn five_is_written_as_101_then_zeros() {
        assert_eq!(rev64(5), format!("101{}", "0".repeat(61)));
        assert_eq!(rev64(u64::MAX), "1".repeat(64));
        assert_eq!(rev64(1 << 63), format!("{}1", "0".repeat(63)));
    }

    #[test]
    fn paths_follow_the_tree_of_the_format() {
        let shard = "12345678-9abc-def0-1234-56789abcdef0";
        let one = format!("1{}", "0".repeat(63));
        assert_eq!(shard_dir(SHARD), format!("_mem_wal/{shard}"));
        assert_eq!(
            manifest_path(SHARD, ManifestVersion::new(1)),
            format!("_mem_wal/{shard}/manifest/{one}.binpb")
        );
        assert_eq!(version_hint_path(SHARD), format!("_mem_wal/{shard}/manifest/version_hint.json"));
        assert_eq!(wal_path(SHARD, WalPosition::new(1)), format!("_mem_wal/{shard}/wal/{one}.arrow"));
        assert_eq!(sstable_name(0xab, Generation::new(12)), "000000ab_gen_12");
        assert_eq!(sstable_dir(SHARD, "000000ab_gen_12"), format!("_mem_wal/{shard}/000000ab_gen_12"));
        assert_eq!(parse_shard_name(shard), Some(SHARD));
    }

    #[test]
    fn left_overs_and_unknown_names_are_nobodys() {
        let whole = format!("{}.arrow", rev64(7));
        assert_eq!(parse_wal_name(&whole), Some(WalPosition::new(7)));
        let strangers = [
            format!("{whole}.tmp.0a1b"),
            format!("{whole}#1"),
            format!("{}.binpb", rev64(7)),
            format!("{}.arrow", rev64(0)),
            format!("0{whole}"),
            whole.replacen('0', "2", 1),
            whole.replacen('0', "+", 1),
            "version_hint.json".to_owned(),
            ".arrow".to_owned(),
            String::new(),
        ];
        for name in strangers {
            assert_eq!(parse_wal_name(&name), None, "{name}");
        }
        assert_eq!(parse_manifest_name(&format!("{}.binpb.tmp.ff", rev64(7))), None);
        assert_eq!(parse_manifest_name(VERSION_HINT_NAME), None);
        for name in [
            "0000000A_gen_1",
            "000000a_gen_1",
            "0000000a_gen_01",
            "0000000a_gen_",
            "0000000a_gen_1 ",
            "0000000a_gen_+1",
            "0000000a_gen_99999999999999999999",
            "0000000a",
            "wal",
            "+000000a_gen_1",
        ] {
            assert_eq!(parse_sstable_name(name), None, "{name}");
        }
        assert_eq!(parse_shard_name("{12345678-9abc-def0-1234-56789abcdef0}"), None);
        assert_eq!(parse_shard_name("123456789abcdef0123456789abcdef0"), None);
        assert_eq!(parse_shard_name("12345678-9ABC-DEF0-1234-56789ABCDEF0"), None);
    }

    proptest! {
        #[test]
        fn every_name_comes_back(number: u64, token: u32) {
            prop_assert_eq!(parse_rev64(&rev64(number)), Some(number));
            let position = WalPosition::new(number.max(1));
            prop_assert_eq!(parse_wal_name(&format!("{}.arrow", rev64(position.get()))), Some(position));
            let version = ManifestVersion::new(number.max(1));
            prop_assert_eq!(parse_manifest_name(&format!("{}.binpb", rev64(version.get()))), Some(version));
            let generation = Generation::new(number);
            prop_assert_eq!(parse_sstable_name(&sstable_name(token, generation)), Some((token, generation)));
        }

        #[test]
        fn any_text_is_parsed_to_what_writes_it_again(
            text in "\\PC{0,80}|[01]{63,65}|[0-9a-f]{8}_gen_[0-9]{1,21}",
        ) {
            if let Some(number) = parse_rev64(&text) {
                prop_assert_eq!(rev64(number), text.clone());
            }
            if let Some((token, generation)) = parse_sstable_name(&text) {
                prop_assert_eq!(sstable_name(token, generation), text);
            }
        }
    }
}
