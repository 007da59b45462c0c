//! The LanceDB remote protocol over Headwater.
