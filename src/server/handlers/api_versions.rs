//! ApiVersions (key 18), versions 0 to 4: what this broker serves, and at which versions.
//!
//! - A client newer than v4 is answered in v0, with UNSUPPORTED_VERSION and the one entry for this API, so that it
//!   knows what to ask with (KIP-511).
//! - v3+: the client names its software (KIP-511); features (KIP-584). Before v4, features that start at version 0 are
//!   left out, for clients of that time refuse them.

use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::controller::features::FEATURES;
use crate::metadata::image::{FeaturesImage, MetadataImage};
use crate::net::{ClientInformation, Response};
use crate::protocol::ErrorCode;
use crate::protocol::versions::ApiKey;
use crate::server::request::RequestError;

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    if call.header.is_unsupported_api_versions() {
        return call.encode(&refusal(ErrorCode::UnsupportedVersion));
    }
    let request: ApiVersionsRequest = call.decode()?;
    if call.header.api_version >= 3 {
        let (name, version) = (&request.client_software_name, &request.client_software_version);
        if !is_valid_software(name) || !is_valid_software(version) {
            let refused = ApiVersionsResponse::default().with_error_code(ErrorCode::InvalidRequest.code());
            return call.encode(&refused);
        }
        call.connection
            .set_client(ClientInformation { software_name: name.to_string(), software_version: version.to_string() });
    }
    call.encode(&describe(&call.broker.image(), call.header.api_version))
}

/// Only this API, for a client that asked in an unknown version.
fn refusal(error: ErrorCode) -> ApiVersionsResponse {
    ApiVersionsResponse::default()
        .with_error_code(error.code())
        .with_api_keys(served().filter(|api| api.api_key == ApiKey::ApiVersions.key()).collect())
}

fn served() -> impl Iterator<Item = ApiVersion> {
    ApiKey::ALL.iter().filter_map(|key| {
        let served = key.served()?;
        Some(
            ApiVersion::default()
                .with_api_key(key.key())
                .with_min_version(served.min_version)
                .with_max_version(served.max_version),
        )
    })
}

/// The pattern of KIP-511: letters and digits, and within them `-` and `.`.
fn is_valid_software(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

fn describe(image: &MetadataImage, version: i16) -> ApiVersionsResponse {
    let supported = FEATURES
        .iter()
        // v4+: KIP-1022.
        .filter(|feature| version >= 4 || feature.supported.min > 0)
        .map(|feature| {
            SupportedFeatureKey::default()
                .with_name(StrBytes::from_static_str(feature.name))
                .with_min_version(feature.supported.min)
                .with_max_version(feature.supported.max)
        })
        .collect();
    let apart = [FeaturesImage::METADATA_VERSION, FeaturesImage::KRAFT_VERSION];
    let apart = apart.map(|name| (name, image.features.level_of(name)));
    let others = image.features.finalized.iter().map(|(name, &level)| (name.as_str(), level));
    let finalized = others
        .chain(apart.into_iter().filter(|(_, level)| *level > 0))
        .map(|(name, level)| {
            FinalizedFeatureKey::default()
                .with_name(StrBytes::from_string(name.to_owned()))
                .with_min_version_level(level)
                .with_max_version_level(level)
        })
        .collect();
    ApiVersionsResponse::default()
        .with_api_keys(served().collect())
        .with_supported_features(supported)
        .with_finalized_features(finalized)
        .with_finalized_features_epoch(image.provenance.offset.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_kafkas_pattern() {
        for good in ["apache-kafka-java", "4.3.1", "a", "librdkafka", "3.0-SNAPSHOT"] {
            assert!(is_valid_software(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".1", "a b", "a_b", "é"] {
            assert!(!is_valid_software(bad), "{bad}");
        }
    }
}
