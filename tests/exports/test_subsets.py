"""Which subsets can be exported: the hard sides, easy images, or the sides of these."""

from refusals import fails
from scored import small_suite

from nooch.errors import ParameterError
from nooch.exports.export_contract import check_subsets


def test_easy_images_are_their_two_sides():
    challenge = small_suite().set("ce", "car", "test")
    label = dict(zip(challenge.image_ids.to_list(), challenge.labels.tolist(), strict=True))
    easy = challenge.ids("easy")
    assert challenge.ids("easy_positive") == [i for i in easy if label[i]] != []
    assert challenge.ids("easy_negative") == [i for i in easy if not label[i]] != []
    assert check_subsets(["easy_positive", "hard_positive", "easy_positive"]) == (
        "easy_positive",
        "hard_positive",
    )
    fails(
        lambda: check_subsets(["easy", "easy_negative"]),
        "easy holds its own sides",
        kind=ParameterError,
    )
    fails(lambda: check_subsets(["easy_sides"]), "'easy_sides' is no subset", kind=ParameterError)
    fails(lambda: check_subsets([]), "no subset is named", kind=ParameterError)
