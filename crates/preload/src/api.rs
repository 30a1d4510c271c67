//! What an instrumented program finds of its recorder (see [`iotrail_sdk::api`]).

use iotrail_sdk::api::{Api, LOCAL};

/// The functions of this library's recorder, under the name [`iotrail_sdk::api::EXPORTED`].
#[unsafe(no_mangle)]
pub extern "C" fn iotrail_api_2() -> *const Api {
    &raw const LOCAL
}
