//! Messages of the stream: requests are encoded, responses stay bytes until their size was looked at.

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::face::grpc::proto::DiscoveryRequest;

#[derive(Default)]
pub(super) struct Raw;

impl Codec for Raw {
    type Encode = DiscoveryRequest;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = DiscoveryRequest;
    type Error = Status;

    fn encode(&mut self, request: DiscoveryRequest, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&request.encode_to_vec());
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
