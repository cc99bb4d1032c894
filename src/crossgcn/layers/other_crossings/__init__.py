"""Feature-crossing modules of other papers, as alternatives to the cross-feature transform.

Order K means that no product has more than K factors. DCN and the decomposed CIN are functions of
a few projections of a row, as the paper's transform is. The others multiply single features: they
work on the stored entries of sparse rows, which cannot be aggregated before.
"""
