//! Check values of the format, and what is refused. `tests/all/goldens.rs` compares with the reference type
//! by type.

use arrow_array::{
    BooleanArray, Date32Array, Date64Array, Float32Array, Float64Array, Int32Array, Int64Array,
    LargeStringArray, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};

use super::*;

fn of(array: &dyn Array, num_buckets: u32) -> Vec<u32> {
    bucket(array, num_buckets).unwrap()
}

#[test]
fn check_values_hold_for_eight_buckets() {
    assert_eq!(of(&Int32Array::from(vec![1, 2, 3]), 8), [2, 7, 1]);
    assert_eq!(of(&Int64Array::from(vec![1, 2, 3]), 8), [4, 4, 3]);
    assert_eq!(of(&StringArray::from(vec!["a", "b", "abcd", "abcde", "é"]), 8), [1, 5, 2, 4, 1]);
    assert_eq!(of(&BooleanArray::from(vec![true, false]), 8), [2, 6]);
    assert_eq!(of(&Float64Array::from(vec![1.25]), 8), [0]);
    assert_eq!(of(&TimestampMicrosecondArray::from(vec![1]), 8), [4]);
    assert_eq!(of(&Date32Array::from(vec![1]), 8), [2]);
    assert_eq!(of(&UInt32Array::from(vec![u32::MAX]), 8), [0]);
    assert_eq!(of(&UInt64Array::from(vec![u64::MAX]), 8), [0]);
}

#[test]
fn check_values_hold_for_four_buckets() {
    assert_eq!(of(&Int64Array::from(vec![1, 2, 3, 4, 5]), 4), [0, 0, 3, 2, 3]);
}

#[test]
fn null_and_the_empty_text_are_in_bucket_zero() {
    assert_eq!(of(&Int64Array::from(vec![None, Some(1), None]), 8), [0, 4, 0]);
    assert_eq!(of(&LargeStringArray::from(vec![None, Some("")]), 1000), [0, 0]);
}

#[test]
fn equal_values_have_one_bucket() {
    let zeros = of(&Float64Array::from(vec![0.0, -0.0]), 1000);
    assert_eq!(zeros[0], zeros[1]);
    let other_nan = f32::from_bits(0xffc0_1234);
    let nans = of(&Float32Array::from(vec![f32::NAN, other_nan]), 1000);
    assert_eq!(nans[0], nans[1]);
    let other_nan = f64::from_bits(0xfff8_0000_0000_0042);
    let nans = of(&Float64Array::from(vec![f64::NAN, other_nan]), 1000);
    assert_eq!(nans[0], nans[1]);
    let texts = StringArray::from(vec!["x", "abcdefg"]);
    assert_eq!(of(&texts, 777), of(&LargeStringArray::from(vec!["x", "abcdefg"]), 777));
}

#[test]
fn slices_count_from_their_own_start() {
    let all = Int64Array::from(vec![Some(9), Some(1), None, Some(3)]);
    assert_eq!(of(&all.slice(1, 3), 8), [4, 0, 3]);
}

#[test]
fn what_has_no_bucket_is_refused() {
    for num_buckets in [0, 1025] {
        let error = bucket(&Int32Array::from(vec![1]), num_buckets);
        assert_eq!(error, Err(BucketError::NumBuckets { num_buckets }));
    }
    let error = bucket(&Date64Array::from(vec![1]), 8);
    assert_eq!(error, Err(BucketError::UnsupportedType { data_type: DataType::Date64 }));
    assert!(is_supported(&DataType::LargeUtf8) && is_supported(&DataType::Time64(TimeUnit::Nanosecond)));
    assert!(!is_supported(&DataType::Binary) && !is_supported(&DataType::Decimal128(10, 2)));
}
