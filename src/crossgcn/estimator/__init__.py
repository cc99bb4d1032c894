"""The scikit-learn classifier and regressor."""
