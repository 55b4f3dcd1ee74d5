"""The Hypothesis strategies of this folder: headers, properties and descriptors of any message."""

from hypothesis import strategies as st

from mqflow.mqi.descriptor import CCSID_INHERIT, MessageDescriptor
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.descriptor_extension import DescriptorExtension
from mqflow.mqi.headers.rfh2 import NAME_VALUE_CCSIDS, RFH2, Folder, FolderProperty
from mqflow.mqi.options import Encoding
from mqflow.mqi.properties.set import PropertyType, PropertyValue

int32 = st.integers(-(2**31), 2**31 - 1)
encodings = st.sampled_from([Encoding.NORMAL, Encoding.NATIVE, Encoding.ZOS])
#: Character sets that header fields can be in; 500 and 1047 are EBCDIC.
field_ccsids = st.sampled_from([1208, 819, 850, 500, 1047])

#: The characters of an XML 1.0 document, without surrogates.
characters = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff", include_characters="\t\n\r")
texts = st.text(characters, max_size=30)
element_names = st.text(st.characters(categories=("L", "N")) | st.sampled_from("_-:"), min_size=1, max_size=12)
property_names = st.lists(element_names, min_size=1, max_size=4).map(".".join)
values = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.binary(max_size=20) | texts
)


def property_values() -> st.SearchStrategy[tuple[PropertyType, PropertyValue]]:
    """Draw a value of each type of message property, with its type."""
    of_types: dict[PropertyType, st.SearchStrategy[PropertyValue]] = {
        PropertyType.NULL: st.none(),
        PropertyType.BOOLEAN: st.booleans(),
        PropertyType.BYTE_STRING: st.binary(max_size=20),
        PropertyType.FLOAT32: st.floats(allow_nan=False, width=32),
        PropertyType.FLOAT64: st.floats(allow_nan=False),
        PropertyType.STRING: texts,
    }
    for bits, kind in zip(
        (8, 16, 32, 64), (PropertyType.INT8, PropertyType.INT16, PropertyType.INT32, PropertyType.INT64), strict=True
    ):
        of_types[kind] = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return st.one_of([st.tuples(st.just(kind), values_of) for kind, values_of in of_types.items()])


def fields(chars: int) -> st.SearchStrategy[str]:
    """Draw a character field as a queue manager gives it: invariant characters, no padding."""
    return st.text("ABCXYZabcxyz0189. _/%", max_size=chars).map(str.rstrip)


attributes = st.lists(st.tuples(st.sampled_from(["context", "copy", "support"]), texts), max_size=2).map(tuple)
properties = st.builds(FolderProperty, property_names, values, st.just(""), attributes)
folders = st.builds(Folder, element_names, st.lists(properties, max_size=6).map(tuple), st.just(""), attributes)

ccsids = st.sampled_from([CCSID_INHERIT, 0, 1208, 819, 500])
dead_letter_headers = st.builds(
    DeadLetterHeader, reason=int32, destination_queue=fields(48), destination_queue_manager=fields(48), encoding=encodings,
    ccsid=ccsids, format=fields(8), put_application_type=int32, put_application_name=fields(28), put_date=fields(8),
    put_time=fields(8),
)  # fmt: skip
descriptor_extensions = st.builds(
    DescriptorExtension, encoding=encodings, ccsid=ccsids, format=fields(8), flags=int32,
    group_id=st.binary(min_size=24, max_size=24), sequence_number=int32, offset=int32, message_flags=int32,
    original_length=int32,
)  # fmt: skip
rfh2s = st.builds(
    RFH2, folders=st.lists(folders, max_size=4).map(tuple), encoding=encodings, ccsid=ccsids, format=fields(8), flags=int32,
    name_value_ccsid=st.sampled_from(sorted(NAME_VALUE_CCSIDS)),
)  # fmt: skip
headers = dead_letter_headers | descriptor_extensions | rfh2s

identifiers = st.binary(min_size=24, max_size=24)
descriptors = st.builds(
    MessageDescriptor, report=int32, message_type=int32, expiry_tenths=int32, feedback=int32, encoding=int32, ccsid=int32,
    format=fields(8), priority=int32, persistence=int32, message_id=identifiers, correlation_id=identifiers,
    backout_count=int32, reply_to_queue=fields(48), reply_to_queue_manager=fields(48), user_identifier=fields(12),
    accounting_token=st.binary(min_size=32, max_size=32), application_identity_data=fields(32), put_application_type=int32,
    put_application_name=fields(28), put_date=fields(8), put_time=fields(8), application_origin_data=fields(4),
    group_id=identifiers, sequence_number=int32, offset=int32, message_flags=int32, original_length=int32,
)  # fmt: skip
