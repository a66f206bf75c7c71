"""Which subsets can be exported: the hard sides, easy images, or the sides of these."""

from refusals import refused
from scored import small_suite

from nooch.report.exports.contract import check_subsets


def test_easy_images_are_their_two_sides():
    challenge = small_suite().set("ce", "car", "test")
    label = dict(zip(challenge.image_ids.to_list(), challenge.labels.tolist(), strict=True))
    easy = challenge.ids("easy")
    assert challenge.ids("easy_positive") == [i for i in easy if label[i]] != []
    assert challenge.ids("easy_negative") == [i for i in easy if not label[i]] != []
    sides = ["easy_positive", "hard_positive"]
    assert check_subsets([*sides, "easy_positive"]) == tuple(sides)
    refused(lambda: check_subsets(["easy", "easy_negative"]), "easy holds its own sides")
    refused(lambda: check_subsets(["easy_sides"]), "'easy_sides' is no subset")
    refused(lambda: check_subsets([]), "no subset is named")
