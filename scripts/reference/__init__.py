"""The pages of the reference that are made from the code and the contract, so that they cannot differ from them."""
