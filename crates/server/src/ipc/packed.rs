//! How much a packed buffer holds.
//!
//! Owns: [`check`]: that the length a packed buffer claims is true, before anything is unpacked. The decoder
//! makes room for what is claimed, and unpacks LZ4 to its end however much that is, so a lie either way would
//! take memory out of all proportion to what was sent. Does not own: unpacking (Arrow).

use arrow_ipc::CompressionType;

/// How an LZ4 frame begins.
const LZ4_MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
/// Set in the first byte of a frame's settings when blocks, the frame's length or a dictionary's id follow.
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const DICTIONARY_ID: u8 = 1;
/// Set in the length of a block that is not packed.
const STORED: u32 = 1 << 31;
/// The shortest match of a block.
const MIN_MATCH: u64 = 4;
/// The most a block of Zstandard unpacks to, and the least bytes there are of one.
const ZSTD_BLOCK: u64 = 128 << 10;
const ZSTD_MIN_BLOCK: u64 = 4;

/// Checks that `packed` can unpack to no more than `claimed` bytes, and, where that is known, to no fewer.
///
/// # Errors
/// What is claimed, and what is true.
pub fn check(codec: CompressionType, packed: &[u8], claimed: u64) -> Result<(), String> {
    match codec {
        CompressionType::LZ4_FRAME => match lz4(packed, claimed) {
            Some(bytes) if bytes == claimed => Ok(()),
            Some(bytes) if bytes < claimed => {
                Err(format!("it claims a buffer of {claimed} bytes that unpacks to {bytes}"))
            }
            Some(_) => Err(format!("it claims a buffer of {claimed} bytes that unpacks to more")),
            None => Err("it has a packed buffer that is no whole LZ4 frame".to_owned()),
        },
        // It unpacks to what is claimed at most; here it is about the room made for it.
        CompressionType::ZSTD => {
            let most = (packed.len() as u64 / ZSTD_MIN_BLOCK).saturating_add(1).saturating_mul(ZSTD_BLOCK);
            match claimed <= most {
                true => Ok(()),
                false => Err(format!("it claims a buffer of {claimed} bytes that unpacks to {most} at most")),
            }
        }
        other => Err(format!("it is packed in a way that is not known, {}", other.0)),
    }
}

/// What an LZ4 frame unpacks to, as far as it is no more than `most`; none when it is no frame, or is cut
/// within a block.
fn lz4(frame: &[u8], most: u64) -> Option<u64> {
    let rest = frame.strip_prefix(&LZ4_MAGIC)?;
    let settings = *rest.first()?;
    let has = |setting: u8| settings & setting != 0;
    // Two bytes of settings and one of a checksum.
    let head = 3 + if has(CONTENT_SIZE) { 8 } else { 0 } + if has(DICTIONARY_ID) { 4 } else { 0 };
    let (mut rest, mut bytes) = (rest.get(head..)?, 0_u64);
    // As the decoder has it, a frame may lack its end mark, and a block of nothing is the last one.
    while let Some((length, blocks)) = rest.split_first_chunk().filter(|_| bytes <= most) {
        let length = u32::from_le_bytes(*length);
        let (block, after) = blocks.split_at_checked((length & !STORED) as usize)?;
        let unpacked = if length & STORED == 0 { lz4_block(block, most)? } else { block.len() as u64 };
        if unpacked == 0 {
            break;
        }
        bytes += unpacked;
        rest = if has(BLOCK_CHECKSUMS) { after.get(4..)? } else { after };
    }
    Some(bytes)
}

/// What a block unpacks to: literals and matches, one after the other; none when it is cut.
fn lz4_block(mut block: &[u8], most: u64) -> Option<u64> {
    let mut bytes = 0_u64;
    while let Some((token, rest)) = block.split_first().filter(|_| bytes <= most) {
        let (literals, rest) = lz4_length(u64::from(token >> 4), rest)?;
        bytes += literals;
        block = rest.get(usize::try_from(literals).ok()?..)?;
        if block.is_empty() {
            break;
        }
        let (length, rest) = lz4_length(u64::from(token & 15), block.get(2..)?)?;
        bytes += length + MIN_MATCH;
        block = rest;
    }
    Some(bytes)
}

/// A length, with the bytes that go on with it where it is the largest there is.
fn lz4_length(mut length: u64, mut rest: &[u8]) -> Option<(u64, &[u8])> {
    let mut goes_on = length == 15;
    while goes_on {
        let (more, after) = rest.split_first()?;
        length += u64::from(*more);
        (goes_on, rest) = (*more == u8::MAX, after);
    }
    Some((length, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of these blocks, of which those that are marked are packed.
    fn frame(settings: u8, blocks: &[(bool, &[u8])]) -> Vec<u8> {
        let mut frame = [LZ4_MAGIC.as_slice(), &[0x40 | settings, 0x40, 0]].concat();
        for (packed, block) in blocks {
            let length = block.len() as u32 | if *packed { 0 } else { STORED };
            frame.extend_from_slice(&length.to_le_bytes());
            frame.extend_from_slice(block);
        }
        frame.extend_from_slice(&[0; 4]);
        frame
    }

    #[test]
    fn the_length_of_an_lz4_frame_is_told_by_its_blocks() {
        let checked = |frame: &[u8], claimed| check(CompressionType::LZ4_FRAME, frame, claimed).is_ok();
        // Two literals, a match of 4 + 15 + 255 + 1 bytes, one literal.
        let block: &[u8] = &[0x2f, b'a', b'b', 1, 0, 255, 1, 0x10, b'c'];
        assert!(checked(&frame(0, &[(true, block)]), 278));
        assert!(checked(&frame(0, &[(true, block), (false, b"xyz")]), 281));
        for wrong in [0, 1, 277, 279, 1 << 40] {
            assert!(!checked(&frame(0, &[(true, block)]), wrong), "{wrong}");
        }
        for cut in 1..9 {
            let whole = frame(0, &[(true, block)]);
            assert!(!checked(&whole[..whole.len() - 4 - cut], 278), "{cut}");
        }
        assert!(!checked(b"", 0) && !checked(&[0; 40], 0));
        // A match as long as the rest of its block says: 255 times what was sent, where 8 bytes are claimed.
        let bomb = [&[0x1f, b'a', 1, 0][..], &[255; 60_000], &[0, 0x10, b'a']].concat();
        assert!(!checked(&frame(0, &[(true, &bomb)]), 8));
        assert!(checked(&frame(0, &[(true, &bomb)]), 255 * 60_000 + 21));
    }

    #[test]
    fn zstandard_may_claim_as_much_as_its_blocks_can_hold() {
        let checked = |bytes: usize, claimed| check(CompressionType::ZSTD, &vec![0; bytes], claimed).is_ok();
        assert!(checked(13, 512 << 10) && !checked(13, 1 << 30) && checked(1 << 16, 1 << 30));
        assert!(check(CompressionType(7), &[], 0).is_err());
    }
}
