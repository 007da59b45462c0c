//! Bytes of WAL entries, ours and damaged ones. `tests/all/` reads what the reference wrote and tries random
//! bytes.

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int64Array, NullArray, StringArray, StructArray,
};
use arrow_schema::{DataType, Field};

use super::*;
use crate::schema::{FIELD_ID, KEY_POSITION, storage_schema};
use crate::token::ClientToken;

const EPOCH: Epoch = Epoch::new(7);
const GEN: Generation = Generation::new(3);
const ALL_COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

fn schema() -> SchemaRef {
    let key = [(KEY_POSITION, "1"), (FIELD_ID, "0")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let base = Schema::new_with_metadata(
        vec![
            Field::new("id", DataType::Int64, false).with_metadata(key.into()),
            Field::new("text", DataType::Utf8, false),
        ],
        HashMap::from([("owner".to_owned(), "tests".to_owned())]),
    );
    storage_schema(&base).unwrap()
}

fn batch(ids: &[i64]) -> RecordBatch {
    let texts: StringArray =
        ids.iter().map(|id| (id % 3 != 0).then(|| format!("row {id} ").repeat(40))).collect();
    let tombstones: BooleanArray = ids.iter().map(|id| Some(id % 3 == 0)).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(texts), Arc::new(tombstones)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn two_batches() -> Vec<RecordBatch> {
    vec![batch(&[1, 2, 3, 4]), batch(&[5, 6])]
}

fn encode(compression: Compression) -> Bytes {
    encode_rows(&schema(), EPOCH, GEN, &two_batches(), compression).unwrap()
}

fn expected() -> WalEntry {
    let body = WalBody::Rows { generation: Some(GEN), batches: two_batches() };
    WalEntry { epoch: EPOCH, body, tokens: Vec::new() }
}

/// An entry with any metadata, as another writer might make it.
fn by_hand(metadata: &[(&str, &str)], batches: &[RecordBatch]) -> Bytes {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let schema = Arc::new(Schema::new_with_metadata(schema().fields().clone(), metadata));
    let batches: Vec<RecordBatch> = batches.iter().map(|batch| rewrap(batch, &schema).unwrap()).collect();
    write_stream(&schema, &batches, IpcWriteOptions::default()).unwrap()
}

#[test]
fn rows_come_back_under_every_compression() {
    for compression in ALL_COMPRESSIONS {
        assert_eq!(decode(encode(compression)), Ok(expected()), "{compression:?}");
    }
    assert!(encode(Compression::Zstd).len() < encode(Compression::None).len());
    assert!(encode(Compression::Lz4).len() < encode(Compression::None).len());
}

#[test]
fn decoded_batches_carry_the_metadata_of_the_base_alone() {
    let WalBody::Rows { batches, .. } = decode(encode(Compression::None)).unwrap().body else { panic!() };
    for batch in batches {
        assert_eq!(batch.schema(), schema(), "fields keep their metadata, the schema its own");
    }
}

#[test]
fn a_sentinel_comes_back() {
    let bytes = encode_sentinel(EPOCH).unwrap();
    let sentinel = WalEntry { epoch: EPOCH, body: WalBody::FenceSentinel, tokens: Vec::new() };
    assert_eq!(decode(bytes), Ok(sentinel));
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    for compression in ALL_COMPRESSIONS {
        assert_eq!(encode(compression), encode(compression));
    }
}

#[test]
fn every_strict_prefix_is_truncated_and_gives_no_rows() {
    let sentinel = encode_sentinel(EPOCH).unwrap();
    for entry in [encode(Compression::None), encode(Compression::Lz4), encode(Compression::Zstd), sentinel] {
        for length in 0..entry.len() {
            let found = decode(entry.slice(..length));
            assert_eq!(found, Err(WalEntryError::Truncated { length }), "of {} bytes", entry.len());
        }
    }
}

#[test]
fn bytes_after_the_end_of_stream_are_ignored() {
    for tail in [&b"x"[..], &[0; 64], &[0xff; 4], &encode(Compression::None)] {
        let mut bytes = encode(Compression::Zstd).to_vec();
        bytes.extend_from_slice(tail);
        assert_eq!(decode(bytes.into()), Ok(expected()));
    }
}

#[test]
fn an_entry_need_not_be_aligned_in_memory() {
    let entry = encode(Compression::None);
    for shift in 1..8 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(&entry);
        assert_eq!(decode(Bytes::from(bytes).slice(shift..)), Ok(expected()));
    }
}

#[test]
fn slices_are_written_without_their_parents() {
    let ids: Vec<i64> = (0..10_000).collect();
    let slice = batch(&ids).slice(5_000, 2);
    let bytes = encode_rows(&schema(), EPOCH, GEN, std::slice::from_ref(&slice), Compression::None).unwrap();
    assert!(bytes.len() < 4_096, "{} bytes for two rows", bytes.len());
    let WalBody::Rows { batches, .. } = decode(bytes).unwrap().body else { panic!() };
    assert_eq!(batches, [slice]);
}

#[test]
fn dictionaries_and_nested_columns_come_back() {
    let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let inner = Field::new("n", DataType::Int64, true);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let nested = StructArray::new(vec![inner.clone()].into(), vec![Arc::clone(&numbers)], None);
    let with_id = inner.with_metadata(HashMap::from([(FIELD_ID.to_owned(), "4".to_owned())]));
    let fields = |child: Field| {
        vec![
            Field::new("w", words.data_type().clone(), true),
            Field::new("s", DataType::Struct(vec![child].into()), true),
        ]
    };
    let plain = Arc::new(Schema::new(fields(Field::new("n", DataType::Int64, true))));
    let batch = RecordBatch::try_new(plain, vec![Arc::new(words.clone()), Arc::new(nested)]).unwrap();
    // The table's schema has field ids inside the struct, the user's batch has none: the rows are the same.
    let table = Arc::new(Schema::new(fields(with_id)));
    let bytes = encode_rows(&table, EPOCH, GEN, &[batch.clone(), batch], Compression::Lz4).unwrap();
    let WalBody::Rows { batches, .. } = decode(bytes).unwrap().body else { panic!() };
    assert_eq!(batches.len(), 2);
    for batch in batches {
        assert_eq!(batch.schema(), table);
        let nested = batch.column(1).as_any().downcast_ref::<StructArray>().unwrap();
        assert_eq!(nested.column(0), &numbers);
        let found = batch.column(0).as_any().downcast_ref::<DictionaryArray<Int32Type>>().unwrap();
        assert_eq!(found, &words);
    }
}

#[test]
fn an_entry_without_a_readable_epoch_is_refused() {
    let rows = two_batches();
    assert_eq!(decode(by_hand(&[(GENERATION, "1")], &rows)), Err(WalEntryError::MissingEpoch));
    for value in ["", "-1", "x", "1.0", " 1", "01", "18446744073709551616"] {
        let error = WalEntryError::InvalidMetadata { key: WRITER_EPOCH, value: value.to_owned() };
        assert_eq!(decode(by_hand(&[(WRITER_EPOCH, value)], &rows)), Err(error));
    }
}

#[test]
fn the_generation_may_be_absent_but_not_senseless() {
    let rows = two_batches();
    let entry = decode(by_hand(&[(WRITER_EPOCH, "7")], &rows)).unwrap();
    assert!(matches!(entry.body, WalBody::Rows { generation: None, .. }));
    for value in ["", "0", "x", "-3"] {
        let bytes = by_hand(&[(WRITER_EPOCH, "7"), (GENERATION, value)], &rows);
        let error = WalEntryError::InvalidMetadata { key: GENERATION, value: value.to_owned() };
        assert_eq!(decode(bytes), Err(error));
    }
}

#[test]
fn no_batches_means_a_sentinel_and_a_sentinel_has_none() {
    let no_rows = by_hand(&[(WRITER_EPOCH, "7"), (GENERATION, "1")], &[]);
    assert_eq!(decode(no_rows), Err(WalEntryError::NoBatches));
    let not_quite = by_hand(&[(WRITER_EPOCH, "7"), (FENCE_SENTINEL, "no")], &[]);
    assert_eq!(decode(not_quite), Err(WalEntryError::NoBatches));
    let rows = by_hand(&[(WRITER_EPOCH, "7"), (FENCE_SENTINEL, "true")], &two_batches());
    assert_eq!(decode(rows), Err(WalEntryError::SentinelWithRows { batches: 2 }));
}

#[test]
fn rows_that_need_side_files_are_refused() {
    let bytes = by_hand(&[(WRITER_EPOCH, "7"), (SIDE_FILES, "1")], &two_batches());
    assert_eq!(decode(bytes), Err(WalEntryError::Unsupported { feature: "managed blob columns" }));
}

#[test]
fn what_no_reader_could_take_is_not_encoded() {
    let encode = |schema: &SchemaRef, generation, batches: &[RecordBatch]| {
        encode_rows(schema, EPOCH, generation, batches, Compression::None)
    };
    assert_eq!(encode(&schema(), GEN, &[]), Err(WalEntryError::NoBatches));
    assert_eq!(encode(&schema(), GEN, &[batch(&[])]), Err(WalEntryError::NoBatches));
    let error = WalEntryError::InvalidMetadata { key: GENERATION, value: "0".to_owned() };
    assert_eq!(encode(&schema(), Generation::ZERO, &two_batches()), Err(error));
    for key in RESERVED_METADATA {
        let metadata = HashMap::from([(key.to_owned(), "1".to_owned())]);
        let reserved = Arc::new(schema().as_ref().clone().with_metadata(metadata));
        assert_eq!(encode(&reserved, GEN, &two_batches()), Err(WalEntryError::ReservedMetadata { key }));
    }
    let narrow = batch(&[1]).project(&[0, 2]).unwrap();
    let difference = "column _tombstone where the table has text".to_owned();
    assert_eq!(
        encode(&schema(), GEN, &[batch(&[1]), narrow]),
        Err(WalEntryError::MixedSchemas { difference })
    );
    let without_tombstone = batch(&[1]).project(&[0, 1]).unwrap();
    let found = encode(&schema(), GEN, &[without_tombstone]);
    assert!(matches!(found, Err(WalEntryError::MixedSchemas { .. })), "{found:?}");
}

#[test]
fn a_second_schema_in_the_stream_is_refused() {
    let entry = encode(Compression::None);
    let end = entry.len() - 8; // the end-of-stream marker
    let mut bytes = entry[..end].to_vec();
    bytes.extend_from_slice(&entry);
    let found = decode(bytes.into());
    assert!(matches!(found, Err(WalEntryError::MixedSchemas { .. })), "{found:?}");
}

#[test]
fn streams_of_something_else_are_undecodable() {
    let entry = encode(Compression::None);
    let schema_length = usize::try_from(u32::from_le_bytes(entry[4..8].try_into().unwrap())).unwrap();
    let rows_first = entry.slice(8 + schema_length..);
    let undecodable = [
        Bytes::from_static(&[0; 8]),
        Bytes::from_static(&[0xff; 16]),
        Bytes::from_static(b"\x08\0\0\0no flatb"),
        Bytes::from_static(b"ARROW1\0\0\xff\xff\xff\xff"),
        rows_first,
    ];
    for bytes in undecodable {
        let found = decode(bytes.clone());
        let refused =
            matches!(found, Err(WalEntryError::Undecodable { .. } | WalEntryError::Truncated { .. }));
        assert!(refused, "{bytes:?} gave {found:?}");
    }
}

/// An entry compressed with Zstandard whose text column claims to become `claimed` bytes.
fn claiming(texts: &StringArray, claimed: i64) -> Bytes {
    let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, true)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(texts.clone())]).unwrap();
    let mut bytes = encode_rows(&schema, EPOCH, GEN, &[batch], Compression::Zstd).unwrap().to_vec();
    let honest = i64::try_from(texts.values().len()).unwrap().to_le_bytes();
    let place = bytes.windows(8).position(|bytes| bytes == honest).unwrap();
    bytes[place..place + 8].copy_from_slice(&claimed.to_le_bytes());
    bytes.into()
}

#[test]
fn a_buffer_that_claims_to_become_too_much_is_not_decompressed() {
    let refused = |reason: &str| Err(WalEntryError::Undecodable { reason: reason.to_owned() });
    let texts = StringArray::from(vec!["again and ".repeat(100)]);
    assert!(decode(claiming(&texts, 1_000)).is_ok());
    for claimed in [1_i64 << 40, i64::MAX, -2, i64::MIN] {
        let found = decode(claiming(&texts, claimed));
        assert_eq!(found, refused("a compressed buffer that claims an impossible length"), "{claimed}");
    }
    // Large enough that the compression could have made it of more than an entry may hold.
    let digits = (0_u32..20_000).map(|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9).rotate_left(n % 32)));
    let texts = StringArray::from(vec![digits.collect::<String>()]);
    let found = decode(claiming(&texts, (1 << 30) + 1));
    assert_eq!(found, refused("it claims to decompress to more than an entry can hold"));
}

#[test]
fn batches_without_data_are_counted_but_not_past_32_bits() {
    let schema = Arc::new(Schema::new(vec![Field::new("nothing", DataType::Null, true)]));
    let encode = |rows: usize| {
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(NullArray::new(rows))]).unwrap();
        encode_rows(&schema, EPOCH, GEN, &[batch], Compression::None).unwrap()
    };
    assert!(decode(encode(5)).is_ok());
    let found = decode(encode(1 << 32));
    assert!(matches!(found, Err(WalEntryError::Undecodable { .. })), "{found:?}");
}

fn token(name: &str, first: u64, rows: u64) -> EntryToken {
    EntryToken { token: ClientToken::new(name.as_bytes()).unwrap(), first, rows, at_ms: 1_700_000_000_000 }
}

#[test]
fn client_tokens_come_back_and_leave_no_trace_in_the_rows() {
    let tokens = vec![token("a", 0, 2), token("b", 4, 2)];
    for compression in ALL_COMPRESSIONS {
        let bytes =
            encode_rows_with_tokens(&schema(), EPOCH, GEN, &two_batches(), &tokens, compression).unwrap();
        assert_eq!(decode(bytes), Ok(WalEntry { tokens: tokens.clone(), ..expected() }));
    }
}

/// What facts about the reference ask for: nothing of ours but field metadata of `_tombstone`.
#[test]
fn client_tokens_change_nothing_but_the_metadata_of_the_tombstone_field() {
    let options = Compression::None;
    let tokens = [token("a", 0, 6)];
    let with = encode_rows_with_tokens(&schema(), EPOCH, GEN, &two_batches(), &tokens, options).unwrap();
    let (with, rows) = read_stream(with).unwrap();
    let (without, same) = read_stream(encode(options)).unwrap();
    assert_eq!(with.metadata(), without.metadata());
    let (last, others) = with.fields().split_last().unwrap();
    let (plain, plain_others) = without.fields().split_last().unwrap();
    assert_eq!(others, plain_others);
    assert_eq!(last.as_ref().clone().with_metadata(plain.metadata().clone()), **plain);
    let text = r#"[{"token":"61","first":0,"rows":6,"at_ms":1700000000000}]"#;
    assert_eq!(last.metadata().get(TOKENS).map(String::as_str), Some(text));
    assert_eq!(last.metadata().len(), plain.metadata().len() + 1);
    assert_eq!(rows[0].columns(), same[0].columns());
}

#[test]
fn a_list_of_tokens_that_is_none_makes_the_entry_invalid() {
    let tokens = [token("a", 5, 2)];
    let bytes =
        encode_rows_with_tokens(&schema(), EPOCH, GEN, &two_batches(), &tokens, Compression::None).unwrap();
    let error = decode(bytes).unwrap_err();
    assert!(matches!(error, WalEntryError::InvalidTokens { .. }), "it has six rows: {error}");
}

#[test]
fn tokens_need_the_tombstone_column() {
    let bare = Arc::new(Schema::new(schema().fields().iter().take(2).cloned().collect::<Vec<_>>()));
    let batch = two_batches()[0].project(&[0, 1]).unwrap();
    let encode = |tokens: &[EntryToken]| {
        let batches = std::slice::from_ref(&batch);
        encode_rows_with_tokens(&bare, EPOCH, GEN, batches, tokens, Compression::None)
    };
    assert!(encode(&[]).is_ok());
    assert!(matches!(encode(&[token("a", 0, 1)]), Err(WalEntryError::Unencodable { .. })));
}
